"""The 22 queries of TPC-H and V3, each measured by itself against its recomputation."""
