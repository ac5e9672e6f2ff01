/// The JSON Schemas (draft 2020-12) of the records. `apns-worker schema NAME` prints them.
///
/// New versions only add members to the records that the worker writes. The worker accepts exactly the requests that
/// the request schemas allow. Exceptions: the rules that JSON Schema cannot express, which each schema's description
/// lists.
public enum RecordSchema: String, CaseIterable, Sendable {
    /// The value of a request in payload form.
    case payload = "request-payload"
    /// The headers of a request in payload form, as an object of strings.
    case requestHeaders = "request-headers"
    /// The value of a request in envelope form.
    case envelope = "request-envelope"
    /// The headers of a request in envelope form, as an object of strings.
    case envelopeHeaders = "request-envelope-headers"
    /// The value of a record of `apns.results`.
    case result
    /// The headers of a record of `apns.results`, as an object of strings.
    case resultHeaders = "result-headers"
    /// The value of a record of `apns.unregistered`.
    case unregistered
    /// The headers of a record of a retry topic, as an object of strings.
    case retryHeaders = "retry-headers"
    /// The headers of a record of `apns.dead-letters`, as an object of strings.
    case deadLetterHeaders = "dead-letter-headers"

    /// A one-line description of the value or headers that the schema validates, for `apns-worker schema`.
    public var summary: String {
        switch self {
        case .payload: "the value of a request in payload form"
        case .requestHeaders: "the headers of a request in payload form, as an object of strings"
        case .envelope: "the value of a request in envelope form"
        case .envelopeHeaders: "the headers of a request in envelope form, as an object of strings"
        case .result: "the value of a record of apns.results"
        case .resultHeaders: "the headers of a record of apns.results, as an object of strings"
        case .unregistered: "the value of a record of apns.unregistered"
        case .retryHeaders: "the headers of a record of a retry topic, as an object of strings"
        case .deadLetterHeaders: "the headers of a record of apns.dead-letters, as an object of strings"
        }
    }

    /// The schema as a JSON object, with a newline at the end. The schema has the same meaning in draft 7.
    public var text: String { String(decoding: bytes, as: UTF8.self) }

    private var bytes: [UInt8] {
        switch self {
        case .payload: PackageResources.request_payload_json
        case .requestHeaders: PackageResources.request_headers_json
        case .envelope: PackageResources.request_envelope_json
        case .envelopeHeaders: PackageResources.request_envelope_headers_json
        case .result: PackageResources.result_json
        case .resultHeaders: PackageResources.result_headers_json
        case .unregistered: PackageResources.unregistered_json
        case .retryHeaders: PackageResources.retry_headers_json
        case .deadLetterHeaders: PackageResources.dead_letter_headers_json
        }
    }
}

/// The AsyncAPI 3.0.0 document (JSON) of all topics that a worker reads and writes, with their default names.
/// `apns-worker schema asyncapi` prints it. `receive` and `send` are from the worker's point of view.
///
/// Source: https://www.asyncapi.com/docs/reference/specification/v3.0.0, and its Kafka bindings 0.5.0.
package enum AsyncAPIDocument {
    /// A one-line description of the document, for `apns-worker schema`.
    package static let summary = "an AsyncAPI 3.0 document of all topics and their records"

    /// Returns the document as a JSON object, with a newline at the end. In the file, a value `"$NAME"` stands for the
    /// worker's version or a schema.
    package static func text(version: String) -> String {
        let file = String(decoding: PackageResources.asyncapi_json, as: UTF8.self)
        return RecordSchema.allCases.reduce(file.replacing("$version", with: version)) { text, schema in
            // Omit `$schema`, because AsyncAPI interprets schemas as draft 7.
            let lines = schema.text.split(separator: "\n").filter { !$0.hasPrefix("  \"$schema\"") }
            return text.replacing("\"$\(schema.rawValue)\"", with: lines.joined(separator: "\n        "))
        }
    }
}
