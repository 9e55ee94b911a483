package network

import "testing"

func TestSubnetLife(t *testing.T) {
	t.Parallel()
	if err := subnetLife.Check(); err != nil {
		t.Error(err)
	}
}
