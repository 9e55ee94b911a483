package network

// TouchInterfaces is what rules call that change what interfaces depend on.
var TouchInterfaces = touchInterfaces
