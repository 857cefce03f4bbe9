"""November 2026 of a cluster with 16 nodes for training and 2 nodes split with MIG, and what each job costs, by hand.

A p4d.24xlarge costs 21.957642 USD an hour, so one of its 8 GPUs 2.74470525 USD.

Trainers: 16 nodes x 720 h x 21.957642 = 252,952.03584, paid 252,952.04. They have 92,160 GPU hours.

| Job | GPU hours in November | x 2.74470525 | To the cent |
| --- | --- | --- | --- |
| 100: since 31 October, 36 h left of 48, 16 nodes | 36 x 128 = 4,608 | 12,647.601792 | 12,647.60 |
| 101: 10 h, requeued, 20 h, 4 nodes, one of them replaced | 30 x 32 = 960 | 2,634.917040 | 2,634.92 |
| 102: 4 h over midnight, 2 GPUs | 4 x 2 = 8 | 21.957642 | 21.96 |
| 103: 12 h over the end of the month, 6 of them in it, 8 nodes | 6 x 64 = 384 | 1,053.966816 | 1,053.97 |
| idle | 86,200 | 236,593.592550 | 236,593.59 |

Slices: 2 nodes x 720 h x 21.957642 = 31,619.00448, paid 31,619.00. A 3g.20gb has 4 of the 8 memory slices of a GPU, a
1g.5gb one of them.

| Job | GPU hours | x 2.74470525 | To the cent |
| --- | --- | --- | --- |
| 200: 100 h, one 3g.20gb | 100 x 4/8 = 50 | 137.235262 | 137.23 (cents left: 2, for the others) |
| 201: 40 h, two 1g.5gb | 40 x 2/8 = 10 | 27.447052 | 27.45 |
| idle | 11,460 | 31,454.322165 | 31,454.32 |
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

CLUSTER = """
version: 1
name: llama
region: us-west-2
orchestrator: pcs
network: { availability_zone: us-west-2b }
training:
  fleets:
    trainers:
      instance_type: p4d.24xlarge
      nodes: 16
      capacity: { reservation: cr-0123456789abcdef0 }
    slices:
      instance_type: p4d.24xlarge
      nodes: 2
      efa: false
      mig: 3g.20gb,2g.10gb,1g.5gb,1g.5gb
"""
NOVEMBER = (datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))
HEADING = "JobID|User|Account|State|Start|ElapsedRaw|AllocTRES|NodeList"
NODES = {
    "trainers": tuple(f"t-{number}" for number in range(1, 18)),
    "slices": ("s-1", "s-2"),
}
HOUR = 3600
SACCT = f"""{HEADING}
99|ana|nlp|COMPLETED|2026-10-30T12:00:00|{20 * HOUR}|cpu=8,gres/gpu=8,node=1|t-1
100|ana|nlp|COMPLETED|2026-10-31T12:00:00|{48 * HOUR}|cpu=1536,gres/gpu:a100=128,gres/gpu=128,node=16|t-[1-16]
101|bob|vision|NODE_FAIL|2026-11-03T00:00:00|{10 * HOUR}|cpu=384,gres/gpu=32,node=4|t-[1-4]
101|bob|vision|COMPLETED|2026-11-03T11:00:00|{20 * HOUR}|cpu=384,gres/gpu=32,node=4|t-[1-3,17]
101.batch|||COMPLETED|2026-11-03T11:00:00|{20 * HOUR}|cpu=96,gres/gpu=8,node=1|t-1
102|cid|nlp|COMPLETED|2026-11-10T22:00:00|{4 * HOUR}|cpu=24,gres/gpu=2,node=1|t-5
103|ana|nlp|RUNNING|2026-11-30T18:00:00|{12 * HOUR}|cpu=768,gres/gpu=64,node=8|t-[1-8]
104|ana|nlp|PENDING|Unknown|0||None assigned
200|dee|vision|COMPLETED|2026-11-04T00:00:00|{100 * HOUR}|gres/gpu:3g.20gb=1,gres/gpu=1,node=1|s-1
201|eli|vision|COMPLETED|2026-11-20T00:00:00|{40 * HOUR}|gres/gpu:a100_1g.5gb=2,gres/gpu=2,node=1|s-2
"""
PAID = {"trainers": Decimal("252952.04"), "slices": Decimal("31619.00")}
IDLE = {"trainers": Decimal("236593.59"), "slices": Decimal("31454.32")}
JOBS = {
    "100": Decimal("12647.60"),
    "101": Decimal("2634.92"),
    "102": Decimal("21.96"),
    "103": Decimal("1053.97"),
    "200": Decimal("137.23"),
    "201": Decimal("27.45"),
}
