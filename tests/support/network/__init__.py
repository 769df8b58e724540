"""Real connections: transports on free ports, proxies, attackers, multicast, namespaces."""
