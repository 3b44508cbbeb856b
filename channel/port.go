package channel

// WebPort reports whether a public Web server may be expected on a TCP port: 80, 443, and 8000 to 8999 without the
// ports of other well-known services. Peers fetch from these ports only. A volunteer's computer must not become a way
// to talk to databases and control planes.
func WebPort(port uint16) bool {
	switch {
	case port == 80 || port == 443:
		return true
	case port < 8000 || port > 8999:
		return false
	}
	return !otherService[port]
}

// otherService holds ports from 8000 to 8999 that belong to services that are not public Web pages.
var otherService = map[uint16]bool{
	8001: true,                                                                                     // Kubernetes API proxy
	8005: true,                                                                                     // Tomcat's shutdown command
	8006: true,                                                                                     // Proxmox
	8009: true,                                                                                     // AJP
	8020: true,                                                                                     // Hadoop file system
	8030: true, 8031: true, 8032: true, 8033: true, 8040: true, 8041: true, 8042: true, 8088: true, // Hadoop YARN
	8060: true,                                                                         // media players' remote control
	8083: true,                                                                         // Kafka Connect
	8086: true,                                                                         // InfluxDB
	8087: true,                                                                         // Riak
	8089: true,                                                                         // Splunk's management
	8091: true, 8092: true, 8093: true, 8094: true, 8095: true, 8096: true, 8097: true, // Couchbase and media servers
	8098: true,             // Riak
	8112: true,             // Deluge
	8118: true,             // Privoxy
	8123: true,             // ClickHouse, home automation
	8125: true, 8126: true, // StatsD
	8140: true,             // Puppet
	8161: true,             // ActiveMQ's console
	8200: true, 8201: true, // Vault
	8291: true,                         // MikroTik
	8300: true, 8301: true, 8302: true, // Consul
	8332: true, 8333: true, // Bitcoin
	8388: true,             // Shadowsocks
	8400: true,             // Commvault
	8471: true, 8472: true, // VXLAN, PIM
	8500: true, 8501: true, 8502: true, 8503: true, // Consul
	8529: true,             // ArangoDB
	8545: true, 8546: true, // Ethereum
	8554: true,             // RTSP
	8585: true,             // metadata catalogues
	8600: true,             // Consul's DNS
	8686: true,             // JMX
	8728: true, 8729: true, // MikroTik
	8765: true, // robot bridges
	8787: true, // RStudio
	8834: true, // Nessus
	8883: true, // MQTT
	8889: true, // notebooks
	8983: true, // Solr
}
