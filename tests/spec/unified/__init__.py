"""A runner of the unified test format: each case on both faces, against real deployments.

Spec: unified-test-format. Knows the driver by the names of its public modules only, so the same runner can drive
PyMongo, which has the same names: MANGONEL_SPEC_DRIVER=pymongo shows which side is at fault when a case fails.
"""
