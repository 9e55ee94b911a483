package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// request returns a signed call of an action by the owner of an account, as
// bytes that can be sent for about five minutes. It has the headers of a client
// in Go.
func request(addr string, account int, action, body string, now time.Time) []byte {
	stamp := now.UTC().Format("20060102T150405Z")
	scope := stamp[:8] + "/" + regionName + "/oapi/aws4_request"
	canonical := fmt.Sprintf("POST\n/api/v1/%s\n\nhost:%s\nx-amz-date:%s\n\nhost;x-amz-date\n%s", action, addr, stamp, hexSum(body))
	key := []byte("AWS4" + secretKey)
	for _, part := range []string{stamp[:8], regionName, "oapi", "aws4_request"} {
		key = mac(key, part)
	}
	signature := hex.EncodeToString(mac(key, "AWS4-HMAC-SHA256\n"+stamp+"\n"+scope+"\n"+hexSum(canonical)))
	return fmt.Appendf(nil, "POST /api/v1/%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bastide-bench/1.0 go\r\nContent-Length: %d\r\n"+
		"Accept: application/json\r\nAuthorization: AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=host;x-amz-date, Signature=%s\r\n"+
		"Content-Type: application/json\r\nX-Amz-Date: %s\r\nAccept-Encoding: gzip\r\n\r\n%s",
		action, addr, len(body), accessKey(account), scope, signature, stamp, body)
}

func mac(key []byte, message string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(message))
	return h.Sum(nil)
}

func hexSum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// client makes calls over one connection, as cheaply as possible, because it
// runs on the measured machine.
type client struct {
	conn   net.Conn
	buffer []byte
}

func dial(addr string) (*client, error) {
	conn, err := net.Dial("tcp", addr)
	return &client{conn, make([]byte, 64<<10)}, err
}

// call sends a request and returns the body of a response with the status 200.
// The body is valid until the next call.
func (c *client) call(request []byte) ([]byte, error) {
	if _, err := c.conn.Write(request); err != nil {
		return nil, err
	}
	read, end, length := 0, -1, 0
	for end < 0 || read < end+length {
		if read == len(c.buffer) {
			c.buffer = append(c.buffer, make([]byte, len(c.buffer))...)
		}
		n, err := c.conn.Read(c.buffer[read:])
		if err != nil {
			return nil, err
		}
		read += n
		if end >= 0 {
			continue
		}
		if end = bytes.Index(c.buffer[:read], []byte("\r\n\r\n")); end < 0 {
			continue
		}
		end += 4
		if length, err = contentLength(c.buffer[:end]); err != nil {
			return nil, err
		}
	}
	if !bytes.HasPrefix(c.buffer, []byte("HTTP/1.1 200 ")) {
		return nil, fmt.Errorf("the response is %s", c.buffer[:read])
	}
	return c.buffer[end:read], nil
}

// none repeats a call until the list in its response is empty.
func (c *client) none(addr string, account int, action, body, list string) error {
	for {
		text, err := c.call(request(addr, account, action, body, time.Now()))
		if err != nil || bytes.Contains(text, []byte(`"`+list+`":[]`)) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func contentLength(header []byte) (int, error) {
	_, rest, found := bytes.Cut(header, []byte("\r\nContent-Length: "))
	if !found {
		return 0, errors.New("the response has no Content-Length")
	}
	value, _, _ := bytes.Cut(rest, []byte("\r\n"))
	return strconv.Atoi(string(value))
}

// target is a server and the requests to send to it.
type target struct {
	*process
	addr     string
	requests [][]byte
}

// load makes a number of clients, spread over the targets, send their target's
// requests in turn for a while. It returns the number of calls and the time
// that they took.
func load(clients int, each time.Duration, targets ...target) (calls int, took time.Duration, err error) {
	all := make([]*client, clients)
	for i := range all {
		if all[i], err = dial(targets[i%len(targets)].addr); err != nil {
			return 0, 0, err
		}
		defer all[i].conn.Close()
	}
	var made atomic.Int64
	var over atomic.Bool
	errs := make([]error, clients)
	var running sync.WaitGroup
	start := time.Now()
	defer time.AfterFunc(each, func() { over.Store(true) }).Stop()
	for i, c := range all {
		requests := targets[i%len(targets)].requests
		running.Go(func() {
			n := 0
			for ; !over.Load() && errs[i] == nil; n++ {
				_, errs[i] = c.call(requests[(i+n*clients)%len(requests)])
			}
			made.Add(int64(n))
		})
	}
	running.Wait()
	return int(made.Load()), time.Since(start), errors.Join(errs...)
}
