"""The benchmark lab: contenders, experiments and the conductor that plays them against each other.

It may import anything of the package; nothing imports it. The conductor's own process never imports a peer.
"""
