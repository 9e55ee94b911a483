//go:build !race

package world

// days is how many random days there are.
const days = "30"
