package iam

import "github.com/bastide-cloud/bastide/internal/api"

// pageOf is the part of a list that a request asks for by number. Lists of EIM are
// short: what they hold is bounded for an account.
func pageOf[T any](list []T, asked api.IndexPage) ([]T, api.IndexedPage) {
	shown := list[min(max(asked.FirstItem, 0), len(list)):]
	more := len(shown) > int(asked.ResultsPerPage)
	if more {
		shown = shown[:asked.ResultsPerPage]
	}
	return shown, api.IndexedPage{HasMoreItems: more, MaxResultsLimit: asked.ResultsPerPage, MaxResultsTruncated: more}
}
