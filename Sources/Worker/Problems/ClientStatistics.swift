internal import JSON

/// The parts of one Kafka client's statistics that show how its brokers answer (librdkafka's manual, "Statistics").
struct ClientStatistics: Equatable {
    /// The interval of the statistics. A silent broker is usually detected in the second report, within ten seconds.
    static let intervalMs = 4_000

    struct Broker: Equatable {
        /// The broker's name, `host:port/id`, or the name of the coordinator's connection.
        var name = ""
        /// Whether this entry is the connection to the group's coordinator, which is also listed under its broker's
        /// name.
        var isCoordinator = false
        var isConnected = false
        var inFlight: Int64 = 0
        /// The time since the client received anything on the connection, or -1 if it never did.
        var silentMs: Int64 = -1
        /// The time since the client sent anything on the connection.
        var unsentMs = Int64.max
        var attempts: Int64 = 0
        /// The average time from a request to its response since the last report, in microseconds, or `nil` if there
        /// was no response.
        var roundTripUs: Int64?
    }

    /// The records in the client's queues and in requests to brokers.
    struct Queue: Equatable {
        var records: Int64
        var bytes: Int64
    }

    var brokers: [Broker]?
    var queue: Queue?
    /// Whether the coordinator of the consumer's group is known. For producers, `hasCoordinator` and `isSteady` are
    /// true.
    var hasCoordinator = true
    var isSteady = true
}

extension ClientStatistics {
    init?(_ text: String) {
        self.init()
        var text = text
        let isRead: Void? = try? text.withUTF8 { bytes in
            var reader = try JSONReader(UnsafeRawBufferPointer(bytes))
            try read(&reader)
        }
        if isRead == nil { return nil }
    }

    private mutating func read(_ reader: inout JSONReader) throws(JSONError) {
        var (records, bytes): (Int64?, Int64?) = (nil, nil)
        try reader.enterObject()
        while let name = reader.nextMember() {
            switch name.string {
            case "msg_cnt": records = try reader.integer()
            case "msg_size": bytes = try reader.integer()
            case "brokers":
                var brokers: [Broker] = []
                try reader.enterObject()
                while reader.nextMember() != nil {
                    if let broker = try Broker(reading: &reader) { brokers.append(broker) }
                }
                self.brokers = brokers
            case "cgrp":
                try reader.enterObject()
                while let member = reader.nextMember() {
                    switch member.string {
                    case "state": hasCoordinator = try reader.text().equals("up")
                    case "join_state": isSteady = try reader.text().equals("steady")
                    default: _ = reader.skip()
                    }
                }
            default: _ = reader.skip()
            }
        }
        if let records, let bytes { queue = Queue(records: records, bytes: bytes) }
    }
}

extension ClientStatistics.Broker {
    /// Returns `nil` for librdkafka's internal broker.
    fileprivate init?(reading reader: inout JSONReader) throws(JSONError) {
        var source = ""
        try reader.enterObject()
        while let member = reader.nextMember() {
            switch member.string {
            case "name": name = try reader.text().string
            case "source": source = try reader.text().string
            case "state": isConnected = ["UP", "UPDATE"].contains(try reader.text().string)
            case "waitresp_cnt": inFlight = try reader.integer()
            case "rxidle":
                let microseconds = try reader.integer()
                silentMs = microseconds < 0 ? -1 : microseconds / 1_000
            case "txidle":
                let microseconds = try reader.integer()
                if microseconds >= 0 { unsentMs = microseconds / 1_000 }
            case "connects": attempts = try reader.integer()
            case "rtt":
                try reader.enterObject()
                while let member = reader.nextMember() {
                    if member.string == "avg" { roundTripUs = try reader.integer() } else { _ = reader.skip() }
                }
            default: _ = reader.skip()
            }
        }
        // The average of a window without responses is 0.
        if roundTripUs == 0 { roundTripUs = nil }
        isCoordinator = source == "logical"
        if source == "internal" { return nil }
    }
}
