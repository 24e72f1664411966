"""Adapters of document mappers, and of what they are compared with: each reads whole collections into its objects.

Models are made inside functions, so that the scheduler imports none of the mappers.
"""
