from __future__ import annotations

import torch

from veilrec.models import NeuMFBackbone


def test_all_items_equals_pair_by_pair() -> None:
    net = NeuMFBackbone(5, 7, 4, (6, 3), torch.Generator().manual_seed(0))
    users = torch.tensor([1, 3])
    everything = net.all_items(users)
    torch.testing.assert_close(net(users, torch.arange(7).expand(2, 7)), everything)
    for row, user in enumerate((1, 3)):
        for item in range(7):
            both = torch.cat([net.user_mlp[user], net.item_mlp[item]])
            for weight, bias in zip(net.weight, net.bias, strict=True):
                both = torch.relu(both @ weight + bias)
            gmf = (net.user_gmf[user] * net.item_gmf[item]) @ net.head_gmf
            expected = gmf + both @ net.head_mlp[:, 0] + net.item_bias[item]
            torch.testing.assert_close(everything[row, item], expected)
