"""What an agent is made of: environments, actors, algorithms and storages.

Schemes, configs and `Agent` import from the rooms; each room knows only those that CONTRIBUTING lists below it.
"""
