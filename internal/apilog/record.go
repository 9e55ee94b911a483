package apilog

import "time"

// A Record is one call, as ReadApiLogs shows it. Sizes are in bytes.
type Record struct {
	AccountID string // AccountId: the account of the credentials.
	AccessKey string // QueryAccessKey: the access key that signed, as sent; empty if none.
	Action    string // QueryCallName: the action, such as ReadVms.
	API       string // QueryApiName: oapi for the main API.
	Version   string // QueryApiVersion: the version that was asked for, such as 1.42.
	IP        string // QueryIpAddress: the caller's address, without the port.
	UserAgent string // QueryUserAgent: the header of that name, as sent.
	RequestID string // RequestId: the ID in the response's ResponseContext.

	Date time.Time // QueryDate: when the request arrived; UTC, in milliseconds.
	// CallDuration: until the response was sent; in microseconds.
	Duration time.Duration

	HeaderRaw  string // QueryHeaderRaw: the result of MaskHeader.
	PayloadRaw string // QueryPayloadRaw: the result of MaskPayload.

	// Decision is why policies allowed the call of a user, or did not: for the operator,
	// who finds it in the log. ReadApiLogs does not show it.
	Decision string

	HeaderSize   int // QueryHeaderSize: the header as it was sent, before masking.
	PayloadSize  int // QueryPayloadSize: the body as it was sent, before masking and cutting.
	ResponseSize int // ResponseSize: the size of the response's body.
	Status       int // ResponseStatusCode: the HTTP status of the response.
}

// numberCount and textCount are the numbers of integer and text columns after
// seq.
const (
	numberCount = 6
	textCount   = 11
)

// numbers returns the integer columns in order.
func (r *Record) numbers() [numberCount]int64 {
	return [...]int64{
		r.Date.UnixMilli(), r.Duration.Microseconds(),
		int64(r.HeaderSize), int64(r.PayloadSize), int64(r.ResponseSize), int64(r.Status),
	}
}

// texts returns pointers to the text columns in order.
func (r *Record) texts() [textCount]*string {
	return [...]*string{
		&r.AccountID, &r.AccessKey, &r.Action, &r.API, &r.Version,
		&r.IP, &r.UserAgent, &r.RequestID, &r.HeaderRaw, &r.PayloadRaw, &r.Decision,
	}
}

// inIndex marks the texts in a day's index: account, access_key, action, api,
// ip and request_id.
var inIndex = [textCount]bool{0: true, 1: true, 2: true, 3: true, 5: true, 7: true}

// maxName is the maximum length of such a text in bytes; longer ones are cut.
// In PostgreSQL an index entry must fit into 2704 bytes, or the whole batch is
// refused. Only strangers send longer names.
const maxName = 255

// A slab holds rows without pointers, so that the garbage collector skips it
// and adding a row costs two copies.
type slab struct {
	numbers []int64 // per row: its numbers, then the lengths of its texts
	text    []byte  // the concatenated texts
}

// rowWidth is the number of integers per row in a slab.
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
