"""Cells: snapshot groups that are spread over ranks, by snapshots (`esdg`) or by vertex parts (`distdgl`).

A cell, one snapshot and layer of a group, is an autograd graph of its own. Its inputs are leaves; a BACKWARD row leaves gradients there,
and other rows carry them on: to the cell below, to the cell before, or to other ranks.
"""
