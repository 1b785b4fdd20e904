"""The parties of a federation as separate objects that exchange bytes over a wire, and nothing else."""

from veilrec.federated.roles import SERVER, Aggregator, Client, KeyServer, run_round
from veilrec.federated.wire import Transfer, Wire

__all__ = ["Aggregator", "Client", "KeyServer", "SERVER", "Transfer", "Wire", "run_round"]
