"""Faults as data: plans for engines, drills and users' tests."""
