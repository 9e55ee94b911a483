package apilog

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func benchRecord() *Record {
	return &Record{
		AccountID:    "123456789012",
		AccessKey:    "ABCDEFGHIJ0123456789",
		Action:       "ReadVms",
		API:          "oapi",
		Version:      "1.42",
		IP:           "192.0.2.10",
		UserAgent:    "osc-sdk-go/2.27.0 Terraform/1.9.5 terraform-provider/1.1.0",
		RequestID:    "0475ca1e-d0c5-441d-712a-da55a4175157",
		Date:         start,
		Duration:     1234 * time.Microsecond,
		HeaderRaw:    strings.Repeat(`X-Header-Name: a value of usual length\n`, 8),
		PayloadRaw:   `{"Filters":{"VmIds":["i-12345678"]},"ResultsPerPage":100}`,
		HeaderSize:   400,
		PayloadSize:  57,
		ResponseSize: 1887,
		Status:       200,
	}
}

// BenchmarkAppend reports the CPU time a row costs: to the caller alone, and
// to the whole process until it is written.
func BenchmarkAppend(b *testing.B) {
	b.Run("caller", func(b *testing.B) {
		l := openLog(b, Options{Memory: 1 << 40})
		r := benchRecord()
		for i := range b.N {
			l.Append(r)
			if i%10_000 == 9_999 {
				l.mu.Lock()
				l.slab.reset()
				l.mu.Unlock()
			}
		}
		l.mu.Lock()
		l.slab.reset()
		l.mu.Unlock()
	})
	b.Run("written", func(b *testing.B) {
		l := openLog(b, Options{Dir: b.TempDir(), After: time.After})
		r := benchRecord()
		before := cpu(b)
		b.ResetTimer()
		for range b.N {
			r.Date = r.Date.Add(time.Millisecond)
			l.Append(r)
		}
		if err := l.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/1000/float64(b.N), "cpu-µs/row")
	})
}

func cpu(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkQuery48h reads a page of one account among a thousand that called
// for 48 hours. APILOG_ROWS sets how many rows there are in all.
func BenchmarkQuery48h(b *testing.B) {
	rows := 200_000
	if text := os.Getenv("APILOG_ROWS"); text != "" {
		var err error
		if rows, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	l := openLog(b, Options{Dir: b.TempDir(), After: time.After, Log: slog.Default()})
	r := benchRecord()
	step := 48 * time.Hour / time.Duration(rows)
	for i := range rows {
		r.AccountID = fmt.Sprintf("%012d", i*7919%1000)
		r.Action = []string{"ReadVms", "ReadNets", "CreateVms", "ReadSubnets"}[i/1000%4]
		r.Status = 200
		if i/1000%100 == 99 {
			r.Status = 400
		}
		r.RequestID = fmt.Sprintf("%08x-d0c5-441d-712a-da55a4175157", i)
		r.Date = start.Add(time.Duration(i) * step)
		l.Append(r)
	}
	if err := l.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	base := Query{AccountID: "000000000500", After: start, Before: start.Add(48 * time.Hour), Limit: 100}
	for _, bench := range []struct {
		name   string
		change func(*Query)
	}{
		{"page", func(q *Query) {}},
		{"action", func(q *Query) { q.Actions = []string{"CreateVms"} }},
		{"status", func(q *Query) { q.Statuses = []int{400} }},
		{"nothing found", func(q *Query) { q.RequestIDs = []string{"0475ca1e-d0c5-441d-712a-da55a4175157"} }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			q := base
			bench.change(&q)
			for b.Loop() {
				if _, _, err := l.Query(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkMaskPayload(b *testing.B) {
	for _, bench := range []struct{ name, body string }{
		{"no secret", `{"SubregionName":"eu-west-2a","ImageId":"ami-12345678","VmType":"tinav5.c1r1p1","PrivateIps":["10.0.0.4"],` +
			`"BsuOptimized":true,"SecurityGroupIds":["sg-12345678"],"SubnetId":"subnet-12345678","KeypairName":"backbone",` +
			`"MinVmsCount":1,"MaxVmsCount":1,"BlockDeviceMappings":[]}`},
		{"secret", `{"Description":"for the night shift","Name":"front","CertificateBody":"a certificate","PrivateKey":"a key of ` +
			`some length","Path":"/example/"}`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.SetBytes(int64(len(bench.body)))
			for b.Loop() {
				MaskPayload([]byte(bench.body), "application/json")
			}
		})
	}
}
