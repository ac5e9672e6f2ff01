/// The JSON Schemas (draft 2020-12) of the records: what `apns-worker schema NAME` prints.
///
/// A record that the worker writes may get more members, never other ones; an envelope has only those that are here.
/// What a schema of a request allows the worker takes, and the other way round, but for what the schema's description
/// names.
public enum RecordSchema: String, CaseIterable, Sendable {
    /// The payload form of a request: the value of its record.
    case payload = "request-payload"
    /// The headers of a request in payload form, as an object of their texts.
    case requestHeaders = "request-headers"
    /// The envelope form of a request: the value of its record.
    case envelope = "request-envelope"
    /// The headers of a request in envelope form, as an object of their texts.
    case envelopeHeaders = "request-envelope-headers"
    /// The value of a record of `apns.results`.
    case result
    /// The headers of a record of `apns.results`, as an object of their texts.
    case resultHeaders = "result-headers"
    /// The value of a record of `apns.unregistered`.
    case unregistered
    /// The headers of a record of a retry topic, as an object of their texts.
    case retryHeaders = "retry-headers"
    /// The headers of a record of `apns.dead-letters`, as an object of their texts.
    case deadLetterHeaders = "dead-letter-headers"

    /// One line for people.
    public var summary: String {
        switch self {
        case .payload: "a request in payload form: the value"
        case .requestHeaders: "a request in payload form: its headers, as an object of texts"
        case .envelope: "a request in envelope form: the value"
        case .envelopeHeaders: "a request in envelope form: its headers, as an object of texts"
        case .result: "a record of apns.results: the value"
        case .resultHeaders: "a record of apns.results: its headers, as an object of texts"
        case .unregistered: "a record of apns.unregistered: the value"
        case .retryHeaders: "a record of a retry topic: its headers, as an object of texts"
        case .deadLetterHeaders: "a record of apns.dead-letters: its headers, as an object of texts"
        }
    }

    /// The schema, a JSON object; a newline at the end.
    public var text: String {
        SchemaTree.object([.init("$schema", "https://json-schema.org/draft/2020-12/schema")]).adding(tree).text
    }

    /// The same without the version: all of it means the same in draft 7, too.
    var tree: SchemaTree {
        switch self {
        case .payload: Self.payloadTree
        case .requestHeaders: Self.requestHeadersTree
        case .envelope: Self.envelopeTree
        case .envelopeHeaders: Self.envelopeHeadersTree
        case .result: Self.resultTree
        case .resultHeaders: Self.resultHeadersTree
        case .unregistered: Self.unregisteredTree
        case .retryHeaders: Self.retryHeadersTree
        case .deadLetterHeaders: Self.deadLetterHeadersTree
        }
    }
}
