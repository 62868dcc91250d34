"""Bringing expressions to the types that their place needs: what ``algebra/coerce.py`` has, under the binder's roof."""

from __future__ import annotations

from tidemark.algebra.coerce import adapt_text_literals as adapt_text_literals
from tidemark.algebra.coerce import coerce as coerce
from tidemark.algebra.coerce import common_of as common_of
from tidemark.algebra.coerce import days_beside_dates as days_beside_dates
from tidemark.algebra.coerce import fits_implicitly as fits_implicitly
from tidemark.algebra.coerce import folded as folded
from tidemark.algebra.coerce import is_text_literal as is_text_literal
from tidemark.algebra.coerce import settle_null as settle_null
