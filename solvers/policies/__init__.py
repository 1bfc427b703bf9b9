"""Policies of a replay: their contract, Pollux, Sia, Synergy, Optimus, Tiresias, queues."""
