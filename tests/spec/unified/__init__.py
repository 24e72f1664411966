"""A runner of the unified test format: each case on both faces, against real deployments.

Spec: unified-test-format. Knows the driver by the names of its public modules only, so the same runner can drive the
peer whose names they are: MANGONEL_SPEC_DRIVER=pymongo shows whose fault it is when a case fails.
"""
