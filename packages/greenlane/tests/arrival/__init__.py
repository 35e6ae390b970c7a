"""Whether a recorded arrival is the request's own: real servers, real connections, the client's own clock."""
