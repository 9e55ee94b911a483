package apilog

import (
	"encoding/binary"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Actions returns the actions that read the log.
func Actions(a *Archive, pager *api.Pager) []api.Action {
	return []api.Action{api.Do("ApiLog", readApiLogs(a, pager))}
}

// ReadApiLogsRequest lists the calls of the account.
type ReadApiLogsRequest struct {
	Filters *FiltersApiLog // One or more filters.
	With    *With          // The information to show of each call; everything by default.
	api.Page
}

// FiltersApiLog selects calls. With neither date, the calls of the last 48
// hours are listed; with one of them, the calls of the 2 days after or before
// it.
type FiltersApiLog struct {
	QueryAccessKeys []string // The access keys that signed the calls.
	// The names of the APIs that were called. The name of the main API is
	// `oapi`.
	QueryApiNames  []string
	QueryCallNames []string // The names of the actions that were called.
	// The date, or date and time (UTC), after which the calls were made.
	QueryDateAfter *api.DateTime
	// The date, or date and time (UTC), before which the calls were made.
	QueryDateBefore     *api.DateTime
	QueryIpAddresses    []string // The addresses that the calls came from.
	QueryUserAgents     []string // The User-Agent headers of the calls.
	RequestIds          []string // The request IDs in the responses.
	ResponseStatusCodes []int    // The HTTP status codes of the responses.
}

// With selects the information to show of each call.
type With struct {
	AccountId          bool `default:"true"` // Whether to show the account ID.
	CallDuration       bool `default:"true"` // Whether to show the duration.
	QueryAccessKey     bool `default:"true"` // Whether to show the access key.
	QueryApiName       bool `default:"true"` // Whether to show the name of the API.
	QueryApiVersion    bool `default:"true"` // Whether to show the version of the API.
	QueryCallName      bool `default:"true"` // Whether to show the name of the action.
	QueryDate          bool `default:"true"` // Whether to show the date.
	QueryHeaderRaw     bool `default:"true"` // Whether to show the header.
	QueryHeaderSize    bool `default:"true"` // Whether to show the size of the header.
	QueryIpAddress     bool `default:"true"` // Whether to show the caller's address.
	QueryPayloadRaw    bool `default:"true"` // Whether to show the body.
	QueryPayloadSize   bool `default:"true"` // Whether to show the size of the body.
	QueryUserAgent     bool `default:"true"` // Whether to show the User-Agent header.
	RequestId          bool `default:"true"` // Whether to show the request ID.
	ResponseSize       bool `default:"true"` // Whether to show the size of the response.
	ResponseStatusCode bool `default:"true"` // Whether to show the HTTP status code.
}

// ReadApiLogsResponse is a page of the log.
type ReadApiLogsResponse struct {
	Logs []Log // The calls, oldest first.
	api.NextPage
}

// Log is a call, with the information that was asked for.
type Log struct {
	AccountId      *string // The account ID of the caller.
	CallDuration   *int    // The time from the request to its response, in microseconds.
	QueryAccessKey *string // The access key that signed the call, if any.
	// The name of the API that was called. The name of the main API is `oapi`.
	QueryApiName    *string
	QueryApiVersion *string       // The version of the API that was called.
	QueryCallName   *string       // The name of the action that was called.
	QueryDate       *api.DateTime // When the call was made.
	// The header of the request, without credentials. If the caller was not
	// authenticated, only its start is kept.
	QueryHeaderRaw  *string
	QueryHeaderSize *int    // The size of the header, in bytes.
	QueryIpAddress  *string // The address that the call came from.
	// The body of the request, without secrets. If the caller was not
	// authenticated, a note replaces it.
	QueryPayloadRaw    *string
	QueryPayloadSize   *int    // The size of the body, in bytes.
	QueryUserAgent     *string // The User-Agent header of the request.
	RequestId          *string // The request ID in the response.
	ResponseSize       *int    // The size of the body of the response, in bytes.
	ResponseStatusCode *int    // The HTTP status code of the response.
}

func readApiLogs(a *Archive, pager *api.Pager) func(*resource.Tx, *ReadApiLogsRequest) (*ReadApiLogsResponse, error) {
	const action = "ReadApiLogs"
	return func(tx *resource.Tx, req *ReadApiLogsRequest) (*ReadApiLogsResponse, error) {
		q := req.Filters.query(tx.Now())
		q.AccountID, q.Limit = tx.Account(), int(req.ResultsPerPage)
		q.Bytes, q.Size = api.PageBytes, req.With.size
		after, err := pager.Position(tx.Account(), action, req.NextPageToken)
		if err != nil {
			return nil, err
		}
		if req.NextPageToken != "" {
			if q.From, err = positionOf(after); err != nil {
				return nil, err
			}
		}
		records, next, err := a.Query(tx.Context(), q)
		if err != nil {
			return nil, err
		}
		resp := &ReadApiLogsResponse{Logs: make([]Log, len(records))}
		for i := range records {
			resp.Logs[i] = req.With.show(&records[i])
		}
		if next != nil {
			resp.NextPageToken = pager.Token(tx.Account(), action, next.wire())
		}
		return resp, nil
	}
}

// The intervals for requests with one date, or with none. Source: the
// specification, section 4, ApiLog.
const (
	lastHours = 48 * time.Hour
	twoDays   = 2 * 24 * time.Hour
)

// query returns the query for the filters. Before is not part of the interval;
// with no date the interval ends after the calls of this second.
func (f *FiltersApiLog) query(now time.Time) Query {
	if f == nil {
		f = &FiltersApiLog{}
	}
	q := Query{
		AccessKeys: f.QueryAccessKeys, Actions: f.QueryCallNames, APIs: f.QueryApiNames, IPs: f.QueryIpAddresses,
		UserAgents: f.QueryUserAgents, RequestIDs: f.RequestIds, Statuses: f.ResponseStatusCodes,
	}
	switch {
	case f.QueryDateAfter != nil && f.QueryDateBefore != nil:
		q.After, q.Before = f.QueryDateAfter.Time(), f.QueryDateBefore.Time()
	case f.QueryDateAfter != nil:
		q.After = f.QueryDateAfter.Time()
		q.Before = q.After.Add(twoDays)
	case f.QueryDateBefore != nil:
		q.Before = f.QueryDateBefore.Time()
		q.After = q.Before.Add(-twoDays)
	default:
		q.After, q.Before = now.Add(-lastHours), now.Add(time.Second)
	}
	return q
}

// wire returns the position in the form of page tokens.
func (p *Position) wire() api.Position {
	return api.Position{Seq: uint64(p.Date), Name: string(binary.BigEndian.AppendUint64(nil, uint64(p.Seq)))}
}

func positionOf(p api.Position) (*Position, error) {
	if len(p.Name) != 8 {
		return nil, apierror.InvalidPageToken.Errorf("NextPageToken is not a token of ReadApiLogs.")
	}
	return &Position{Date: int64(p.Seq), Seq: int64(binary.BigEndian.Uint64([]byte(p.Name)))}, nil
}

// everything is the default of With.
var everything = &With{true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true}

// show returns a record with the information that the flags ask for.
func (w *With) show(r *Record) Log {
	if w == nil {
		w = everything
	}
	date := api.At(r.Date)
	micros := int(r.Duration.Microseconds())
	return Log{
		AccountId:          shown(w.AccountId, &r.AccountID),
		CallDuration:       shown(w.CallDuration, &micros),
		QueryAccessKey:     shown(w.QueryAccessKey, &r.AccessKey),
		QueryApiName:       shown(w.QueryApiName, &r.API),
		QueryApiVersion:    shown(w.QueryApiVersion, &r.Version),
		QueryCallName:      shown(w.QueryCallName, &r.Action),
		QueryDate:          shown(w.QueryDate, &date),
		QueryHeaderRaw:     shown(w.QueryHeaderRaw, &r.HeaderRaw),
		QueryHeaderSize:    shown(w.QueryHeaderSize, &r.HeaderSize),
		QueryIpAddress:     shown(w.QueryIpAddress, &r.IP),
		QueryPayloadRaw:    shown(w.QueryPayloadRaw, &r.PayloadRaw),
		QueryPayloadSize:   shown(w.QueryPayloadSize, &r.PayloadSize),
		QueryUserAgent:     shown(w.QueryUserAgent, &r.UserAgent),
		RequestId:          shown(w.RequestId, &r.RequestID),
		ResponseSize:       shown(w.ResponseSize, &r.ResponseSize),
		ResponseStatusCode: shown(w.ResponseStatusCode, &r.Status),
	}
}

// size returns an upper bound for the bytes that the record takes in a
// response. Only texts sent by the caller are measured; the rest counts with
// its largest size.
func (w *With) size(r *Record) int {
	const rest = 600
	if w == nil {
		w = everything
	}
	size := rest + api.TextSize(r.AccessKey) + api.TextSize(r.Action) + api.TextSize(r.API)
	for _, text := range []struct {
		shown bool
		text  string
	}{{w.QueryUserAgent, r.UserAgent}, {w.QueryHeaderRaw, r.HeaderRaw}, {w.QueryPayloadRaw, r.PayloadRaw}} {
		if text.shown {
			size += api.TextSize(text.text)
		}
	}
	return size
}

// shown returns the value if the flag is set, and nil otherwise.
func shown[T any](flag bool, value *T) *T {
	if !flag {
		return nil
	}
	return value
}
