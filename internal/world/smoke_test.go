package world
import "testing"

func TestSmoke(t *testing.T) {
	w := newWorld(t)
	a := w.as("alice").must("CreateNet", `{"IpRange":"10.0.0.0/16"}`)
	t.Log(a.text)
	t.Log(w.as("alice").at("v1.1").must("CreateSubnet", `{"NetId":"`+a.at("Net.NetId")+`","IpRange":"10.0.0.0/24"}`).text)
	w.settle()
	t.Log(w.as("alice").must("ReadSubnets", ``).text)
	t.Log(w.as("bob").call("DeleteNet", `{"NetId":"vpc-12345678"}`).text)
	t.Log(w.clock.Now())
}
func BenchmarkWorld(b *testing.B) {
	for b.Loop() { w := newWorld(b); w.person("alice") }
}
