"""The benchmark lab: contenders, experiments, and the scheduler that runs them.

It may import anything in the package; nothing imports it. The scheduler's own process never imports a contender's
driver.
"""
