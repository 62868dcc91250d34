"""The propagation network: which node depends on which, and how a wave of changes passes through it."""

from tidemark.network.build import build
from tidemark.network.propagate import propagate
from tidemark.strategy.graph import Network
from tidemark.strategy.nodes import Node, NodeKind
from tidemark.strategy.wave import Step, Wave

__all__ = ["Network", "Node", "NodeKind", "Step", "Wave", "build", "propagate"]
