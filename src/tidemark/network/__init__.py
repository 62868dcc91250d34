"""The propagation network: which node depends on which, and how a wave of changes passes through it."""

from tidemark.network.build import Network, build
from tidemark.network.nodes import Node, NodeKind
from tidemark.network.propagate import propagate
from tidemark.network.wave import Step, Wave

__all__ = ["Network", "Node", "NodeKind", "Step", "Wave", "build", "propagate"]
