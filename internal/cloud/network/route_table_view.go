package network

import "github.com/bastide-cloud/bastide/internal/kind"

func viewRouteTable(_ *kind.Tx, t *RouteTable) *RouteTable { return t }
