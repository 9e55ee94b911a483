//go:build !race

package acceptance

// days is how many random days there are where BASTIDE_DAYS does not say it.
const days = "10"
