/// A header known by name: a `HeaderName` or a `TextHeader`. Its number is its place in a field table, so that both forms of
/// a request end in the same checks.
struct KnownHeader: Equatable {
    let place: UInt8

    @inline(__always)
    init(_ name: HeaderName) { place = name.rawValue }

    @inline(__always)
    init(_ text: TextHeader) { place = HeaderName.count &+ text.rawValue }

    /// `nil`: none has this place.
    init?(place: UInt8) {
        guard place < Self.count else { return nil }
        self.place = place
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
    var name: HeaderName? { HeaderName(rawValue: place) }

    /// `nil`: it is none of the texts.
    var textHeader: TextHeader? {
        place < HeaderName.count ? nil : TextHeader(rawValue: place - HeaderName.count)
    }

    var text: StaticString { name?.text ?? textHeader?.row.name ?? "" }

    /// Whether the header is one that only this worker writes, to its retry topics.
    @inline(__always)
    var isRetry: Bool { place >= HeaderName.retryRequest.rawValue && place < HeaderName.count }

    /// Whether an envelope may have it among its `headers`: what goes to Apple, whoever it is for.
    var isOfEnvelope: Bool { place <= HeaderName.apnsID.rawValue || place >= HeaderName.count }

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
