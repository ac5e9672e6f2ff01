import APNs
import Delivery

/// A worker's configuration. It runs without a supervisor, so that what is measured is the worker.
struct WorkerFile {
    var address: PushAddress
    var requests: RequestTopic
    var outputs: OutputTopics
    /// For each app, at most and, with one app, at least.
    var connections = 2
    /// `derived` or `apple`.
    var apnsID = "derived"
    /// From when a gateway has a notification until its silence accepts it.
    var windowMs = 2_000
    /// Static membership; empty: dynamic.
    var instanceID = ""

    /// That a connection may have open: as many as APNs allows.
    static let streams = 1_000

    /// Notifications that the worker may have open at once.
    var mostOpen: Int {
        let takenAtOnce =
            address.client == nil ? connections * Self.streams : BinaryConfiguration.WindowLimits().notifications
        return MachineSettings().mostOpen(streams: takenAtOnce)
    }

    func text(_ broker: Broker) -> String {
        let apps = requests.form.apps
        let least = apps == 1 ? connections : 1
        let credential =
            address.client.map {
                "certificate: {file: \($0.certificateFile), key_file: \($0.keyFile)}\n    transport: binary\n"
                    + "    binary: {window: {duration: \(windowMs)ms}}"
            } ?? "token: {key_file: \(address.signingKeyFile), key_id: \(address.signingKeyID), team_id: TEAM123456}"
        let entries = (0..<apps).map { app in
            """
              - name: \(apps == 1 ? "bench" : "bench-\(app)")
                bundle_ids: [\(Traffic.bundleID(app: app, of: apps))]
                host: localhost
                port: \(address.port)
                \(credential)
                tls: {ca_file: \(address.authorityFile)}
                connections: {min: \(least), max: \(connections)}
            """
        }
        return """
            kafka: {bootstrap_servers: "\(broker.bootstrapServers)", group_id: \(outputs.results), \
            group_instance_id: "\(instanceID)"}
            requests: {topics: [\(requests.name)]}
            results: {topic: \(outputs.results)}
            unregistered: {topic: \(outputs.unregistered)}
            dead_letters: {topic: \(outputs.deadLetters)}
            retry: {tiers: {30s: \(outputs.retry)}}
            delivery: {apns_id: \(apnsID)}
            apps:
            \(entries.joined(separator: "\n"))
            admin: {listen: off}
            crash: core

            """
    }
}
