import JSON

/// What a request's fields take on the wire.
struct HeaderRow {
    enum Kind: String, CaseIterable {
        /// `apns_id: apple`.
        case none = "no_apns_id"
        case derived = "derived_apns_id"
        case producers = "producers_apns_id"

        var title: String {
            switch self {
            case .none: "without an apns-id"
            case .derived: "with a derived apns-id"
            case .producers: "with an apns-id of the producer's"
            }
        }

        var budget: Double { self == .none ? 62 : 92 }
    }

    var kind: Kind
    var count: Int
    /// Of HEADERS frames, without the nine bytes that begin each.
    var meanBytes: Double

    var finding: Finding {
        Finding("headers_\(kind.rawValue)", "HEADERS bytes, \(kind.title)", meanBytes, .atMost, kind.budget, digits: 1)
    }

    static func lines(_ rows: [HeaderRow]) -> [String] {
        if rows.isEmpty { return [] }
        var table = TextTable(["HEADERS on the wire", "bytes each", "budget"])
        for row in rows { table.add([row.kind.title, fixed(row.meanBytes, 1), row.finding.verdict]) }
        return table.lines
    }

    func write(to json: inout JSONWriter) {
        json.beginObject()
        json.member("kind", kind.rawValue)
        json.member("count", count)
        json.member("mean_bytes", meanBytes)
        json.endObject()
    }
}
