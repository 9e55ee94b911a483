//go:build race

package acceptance

// days is how many random days there are where BASTIDE_DAYS does not say it:
// few, since the race detector makes them long, and what it looks for is in each
// of them.
const days = "6"
