// Three brokers of franz-go's kfake on loopback: prints their addresses, and runs until its standard input ends.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(3),
		kfake.AllowAutoTopicCreation(),
		kfake.DefaultNumPartitions(4),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer cluster.Close()
	fmt.Println(strings.Join(cluster.ListenAddrs(), ","))
	io.Copy(io.Discard, os.Stdin)
}
