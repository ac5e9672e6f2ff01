// Values of a program's own types. There is no JSONEncoder without Foundation; what this makes means what JSONEncoder's
// would, as it is unless told otherwise, since Apple decodes the state of a Live Activity with JSONDecoder as that is.

extension PayloadValue {
    /// A value of a type of your own, as JSON.
    ///
    /// ```swift
    /// struct Score: Encodable { var home = 0, away = 0 }
    /// let update = LiveActivityUpdate(contentState: try PayloadValue(encoding: Score()), timestamp: now)
    /// ```
    ///
    /// It means what Foundation's `JSONEncoder` makes with its default strategies: a `Date` is a number of seconds
    /// since 2001, `Data` is base64. Equal values are equal bytes, since members are in the order of their names.
    /// Throws what cannot be JSON, with the path to it: a number that is not finite, more than 64 levels, or what the
    /// type itself throws.
    public init(encoding value: some Encodable) throws(RequestError) {
        let node = EncodedNode()
        do {
            try node.encode(value, [])
            self = try node.value([])
        } catch {
            throw RequestError(encoding: error, of: type(of: value))
        }
    }
}

extension [String: PayloadValue] {
    /// The members of a value of a type of your own, to stand beside `aps`.
    ///
    /// ```swift
    /// payload.custom = try .init(encoding: order)
    /// ```
    ///
    /// Throws where the value is no object, and what `PayloadValue(encoding:)` throws.
    public init(encoding value: some Encodable) throws(RequestError) {
        guard case .object(let members) = try PayloadValue(encoding: value) else {
            throw RequestError(.badRequestPayload, "\(type(of: value)) is not encoded as an object")
        }
        self = members
    }
}

extension RequestError {
    fileprivate init(encoding error: any Error, of type: Any.Type) {
        switch error {
        case let error as RequestError: self = error
        case EncodingError.invalidValue(_, let context):
            self.init(.badRequestPayload, "\(EncodingPath.text(context.codingPath)): \(context.debugDescription)")
        default: self.init(.badRequestPayload, "\(type): \(error)")
        }
    }
}
