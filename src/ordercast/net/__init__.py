"""The runtime: sites over asyncio on a real network, and the faces to them."""
