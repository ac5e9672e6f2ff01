internal import JSON

/// The members of one client's statistics that tell whether it works (librdkafka's manual, "Statistics").
struct ClientStatistics: Equatable {
    /// How often librdkafka reports them. A silence is reported after two reports at most, so within ten seconds.
    static let intervalMs = 4_000

    struct Broker: Equatable {
        /// `host:port/id`, or the name of the coordinator's connection.
        var name = ""
        /// Whether this is the connection to the group's coordinator, which is one of the other brokers, too.
        var isCoordinator = false
        var isConnected = false
        /// Requests that were sent and have no answer yet.
        var inFlight: Int64 = 0
        /// How long ago something was received on the connection; -1 if nothing was.
        var silentMs: Int64 = -1
        /// How often a connection was tried.
        var attempts: Int64 = 0
    }

    struct Group: Equatable {
        /// Whether the coordinator is known and connected.
        var hasCoordinator = false
        /// Whether the member neither joins nor leaves the group.
        var isSteady = false
    }

    var brokers: [Broker]?
    /// `nil` for a producer.
    var group: Group?

    init(brokers: [Broker]? = nil, group: Group? = nil) {
        self.brokers = brokers
        self.group = group
    }

    /// Returns `nil` for a text that is no such JSON.
    init?(_ text: String) {
        var text = text
        let parsed: ClientStatistics? = text.withUTF8 { bytes in
            do throws(JSONError) {
                var reader = try JSONReader(UnsafeRawBufferPointer(bytes))
                return try Self.read(&reader)
            } catch {
                return nil
            }
        }
        guard let parsed else { return nil }
        self = parsed
    }

    private static func read(_ reader: inout JSONReader) throws(JSONError) -> ClientStatistics {
        var statistics = ClientStatistics()
        try reader.enterObject()
        while let name = reader.nextMember() {
            if name.equals("brokers") {
                statistics.brokers = try brokers(&reader)
            } else if name.equals("cgrp") {
                statistics.group = try group(&reader)
            } else {
                _ = reader.skip()
            }
        }
        return statistics
    }

    private static func brokers(_ reader: inout JSONReader) throws(JSONError) -> [Broker] {
        var brokers: [Broker] = []
        try reader.enterObject()
        while reader.nextMember() != nil {
            var broker = Broker()
            var isInternal = false
            try reader.enterObject()
            while let name = reader.nextMember() {
                if name.equals("name") {
                    broker.name = try reader.text().string
                } else if name.equals("source") {
                    let source = try reader.text()
                    broker.isCoordinator = source.equals("logical")
                    isInternal = source.equals("internal")
                } else if name.equals("state") {
                    let state = try reader.text()
                    broker.isConnected = state.equals("UP") || state.equals("UPDATE")
                } else if name.equals("waitresp_cnt") {
                    broker.inFlight = try reader.integer()
                } else if name.equals("rxidle") {
                    let microseconds = try reader.integer()
                    broker.silentMs = microseconds < 0 ? -1 : microseconds / 1_000
                } else if name.equals("connects") {
                    broker.attempts = try reader.integer()
                } else {
                    _ = reader.skip()
                }
            }
            if !isInternal { brokers.append(broker) }
        }
        return brokers
    }

    private static func group(_ reader: inout JSONReader) throws(JSONError) -> Group {
        var group = Group()
        try reader.enterObject()
        while let name = reader.nextMember() {
            if name.equals("state") {
                group.hasCoordinator = try reader.text().equals("up")
            } else if name.equals("join_state") {
                group.isSteady = try reader.text().equals("steady")
            } else {
                _ = reader.skip()
            }
        }
        return group
    }
}
