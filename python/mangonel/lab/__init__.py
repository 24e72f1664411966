"""The benchmark lab: contenders, experiments and the scheduler that plays them against each other.

It may import anything of the package; nothing imports it. The scheduler's own process never imports a peer.
"""
