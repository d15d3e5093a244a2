"""Decentralised learning by a walking model."""
