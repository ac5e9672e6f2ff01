/// A header known by name: a `HeaderName` or a `TextHeader`. Its number is its place in a field table, so that both
/// forms of a request end in the same checks.
struct KnownHeader: Equatable {
    let index: UInt8

    @inline(__always)
    init(_ name: HeaderName) { index = name.rawValue }

    @inline(__always)
    init(_ text: TextHeader) { index = HeaderName.count &+ text.rawValue }

    /// `nil`: none has this place.
    init?(index: UInt8) {
        guard index < Self.count else { return nil }
        self.index = index
    }

    /// How many there are, at the places from 0 on.
    static let count = HeaderName.count + UInt8(TextHeader.allCases.count)

    /// The header of that name, in exactly that spelling. Runs for every header of every record.
    @inline(__always)
    init?(_ name: UnsafeRawBufferPointer) {
        if let known = HeaderName(name) {
            self.init(known)
            return
        }
        for text in TextHeaders.all where text.row.name.spells(name) {
            self.init(text)
            return
        }
        return nil
    }

    /// All, by their places.
    static var all: [KnownHeader] {
        HeaderName.allCases.map { KnownHeader($0) } + TextHeader.allCases.map { KnownHeader($0) }
    }

    /// `nil`: it is a text.
    var name: HeaderName? { HeaderName(rawValue: index) }

    /// `nil`: it is none of the texts.
    var textHeader: TextHeader? {
        index < HeaderName.count ? nil : TextHeader(rawValue: index - HeaderName.count)
    }

    var text: StaticString { name?.text ?? textHeader?.row.name ?? "" }

    /// Whether the header is one that only this worker writes, to its retry topics.
    @inline(__always)
    var isRetry: Bool { index >= HeaderName.retryRequest.rawValue && index < HeaderName.count }

    /// Whether an envelope may have it among its `headers`: what goes to Apple, whoever it is for.
    var isOfEnvelope: Bool { index <= HeaderName.apnsID.rawValue || index >= HeaderName.count }

    /// Apple's word for a wrong value of it.
    var badValue: ReasonCode {
        if let textHeader { return textHeader.row.reason }
        return switch name {
        case .topic: .badTopic
        case .pushType: .invalidPushType
        case .priority: .badPriority
        case .expiration: .badExpirationDate
        case .apnsID: .badMessageId
        case .channelID: .badChannelId
        case .deviceToken: .badDeviceToken
        case .app, .environment, .notBefore, .retryRequest, .retryAttempt, .retryDue, .retryFirst, .retryKey,
            .retryReason,
            .retrySends, .retryInDoubt, .retryTried, nil:
            .none
        }
    }
}
