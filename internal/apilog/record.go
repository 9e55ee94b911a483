package apilog

import "time"

// A Record is one call, as ReadApiLogs shows it. Sizes are in bytes.
type Record struct {
	AccountID string // AccountId: whose call it was, by its credentials.
	AccessKey string // QueryAccessKey: the key that signed, as sent; empty when none did.
	Action    string // QueryCallName: the action, such as ReadVms.
	API       string // QueryApiName: oapi for the main API.
	Version   string // QueryApiVersion: the version that was asked for, such as 1.42.
	IP        string // QueryIpAddress: the caller's address, without the port.
	UserAgent string // QueryUserAgent: the header of that name, as sent.
	RequestID string // RequestId: the id that the answer gave in its ResponseContext.

	Date time.Time // QueryDate: when the request came; kept in UTC, to the millisecond.
	// CallDuration: until the answer was sent; kept and published in microseconds.
	Duration time.Duration

	HeaderRaw  string // QueryHeaderRaw: what MaskHeader made of the request's header.
	PayloadRaw string // QueryPayloadRaw: what MaskPayload made of the request's body.

	HeaderSize   int // QueryHeaderSize: the header as it was sent, before masking.
	PayloadSize  int // QueryPayloadSize: the body as it was sent, before masking and cutting.
	ResponseSize int // ResponseSize: the body of the answer.
	Status       int // ResponseStatusCode: the HTTP status of the answer.
}

// numberCount and textCount are how many columns of each sort follow seq.
const (
	numberCount = 6
	textCount   = 10
)

// numbers are the columns that are numbers, in their order.
func (r *Record) numbers() [numberCount]int64 {
	return [...]int64{
		r.Date.UnixMilli(), r.Duration.Microseconds(),
		int64(r.HeaderSize), int64(r.PayloadSize), int64(r.ResponseSize), int64(r.Status),
	}
}

// texts are the columns that are texts, in their order.
func (r *Record) texts() [textCount]*string {
	return [...]*string{
		&r.AccountID, &r.AccessKey, &r.Action, &r.API, &r.Version,
		&r.IP, &r.UserAgent, &r.RequestID, &r.HeaderRaw, &r.PayloadRaw,
	}
}

// inIndex are the texts that a day's index has: account, access_key, action, api,
// ip and request_id.
var inIndex = [textCount]bool{0: true, 1: true, 2: true, 3: true, 5: true, 7: true}

// maxName is how many bytes such a text keeps. In PostgreSQL all that the index
// has of a row must fit into 2704, or the row and those beside it are refused.
// Only strangers send longer names.
const maxName = 255

// A slab holds rows without a pointer in it, so that the garbage collector
// passes over it and taking a row in costs two copies.
type slab struct {
	numbers []int64 // of each row: its numbers, then the length of each of its texts
	text    []byte  // the texts, one after the other
}

// rowWidth is how many numbers a row has in a slab.
const rowWidth = numberCount + textCount

func (s *slab) rows() int { return len(s.numbers) / rowWidth }

func (s *slab) size() int { return 8*len(s.numbers) + len(s.text) }

func (s *slab) reset() {
	s.numbers, s.text = s.numbers[:0], s.text[:0]
}

func (s *slab) add(r *Record) {
	numbers := r.numbers()
	s.numbers = append(s.numbers, numbers[:]...)
	for i, text := range r.texts() {
		part := *text
		if inIndex[i] {
			part = part[:min(len(part), maxName)]
		}
		s.numbers = append(s.numbers, int64(len(part)))
		s.text = append(s.text, part...)
	}
}

// A rowReader walks the rows of a slab.
type rowReader struct {
	numbers []int64
	text    string
}

func (r *rowReader) rows() int { return len(r.numbers) / rowWidth }

func (r *rowReader) more() bool { return len(r.numbers) > 0 }

// splitDay splits off the rows up to the first of another day.
func (r *rowReader) splitDay() (day, rowReader) {
	on, end, length := dayOf(r.numbers[0]), 0, 0
	for end < len(r.numbers) && dayOf(r.numbers[end]) == on {
		for _, n := range r.numbers[end+numberCount : end+rowWidth] {
			length += int(n)
		}
		end += rowWidth
	}
	part := rowReader{r.numbers[:end], r.text[:length]}
	r.numbers, r.text = r.numbers[end:], r.text[length:]
	return on, part
}

// next takes the next row.
func (r *rowReader) next() (numbers []int64, texts [textCount]string) {
	for i, length := range r.numbers[numberCount:rowWidth] {
		texts[i], r.text = r.text[:length], r.text[length:]
	}
	numbers, r.numbers = r.numbers[:numberCount], r.numbers[rowWidth:]
	return numbers, texts
}
