"""veilrec: recommenders that keep their users' secrets, say which, from whom and at what price."""

__version__ = "0.1.0"
