"""Login by OpenID Connect: the authorization code flow with PKCE, and what its answer says of
somebody."""
