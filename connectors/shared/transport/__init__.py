"""How servers are asked: rate, time, size, circuit breaker, proxies and trust."""
