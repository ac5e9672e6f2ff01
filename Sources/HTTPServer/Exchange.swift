package struct HTTPRequest: Sendable {
    package enum Method: String, Sendable, CaseIterable {
        case get = "GET"
        case post = "POST"
    }

    package var method: Method
    /// The URL's path without the query, percent-decoded.
    package var path: String
    /// The query's parameters in order, percent-decoded. A parameter without `=` has an empty value.
    package var parameters: [(name: String, value: String)] = []
    /// The value of the header `Accept`, or empty.
    package var accept = ""
    package var body: [UInt8] = []

    package func parameter(_ name: String) -> String? {
        parameters.first { $0.name == name }?.value
    }

    /// Returns the first parameter whose name is not among `names`, for handlers that reject unknown parameters.
    package func unknownParameter(besides names: Set<String>) -> String? {
        parameters.first { !names.contains($0.name) }?.name
    }
}

package struct HTTPResponse: Sendable {
    package enum Step: Sendable, Equatable {
        /// The number of bytes written to the buffer, at least one.
        case wrote(Int)
        case end
        /// The body cannot be finished. The server closes the connection, so that the client detects the truncation.
        case failed
    }

    @safe package enum Body: Sendable {
        case bytes([UInt8])
        /// A function that the server's thread calls until the body ends, each time with a buffer of at least 1 KiB.
        case stream(@Sendable (UnsafeMutableRawBufferPointer) -> Step)
    }

    package var status: Int
    package var contentType: String
    package var headers: [(name: String, value: String)] = []
    package var body: Body

    package init(status: Int = 200, contentType: String, body: Body) {
        self.status = status
        self.contentType = contentType
        self.body = body
    }

    package static func text(
        _ text: String, status: Int = 200, contentType: String = "text/plain; charset=utf-8"
    ) -> HTTPResponse {
        HTTPResponse(status: status, contentType: contentType, body: .bytes(Array(text.utf8)))
    }

    package static func json(_ text: String) -> HTTPResponse { .text(text, contentType: "application/json") }
}

/// A page of the server: an HTTP method, an exact path, and a handler.
package struct Route: Sendable {
    package var method: HTTPRequest.Method
    package var path: String
    /// The handler, called on the server's thread, one request at a time. It must not block for long.
    package var answer: @Sendable (HTTPRequest) -> HTTPResponse

    package init(
        _ method: HTTPRequest.Method, _ path: String, answer: @escaping @Sendable (HTTPRequest) -> HTTPResponse
    ) {
        self.method = method
        self.path = path
        self.answer = answer
    }
}

extension [Route] {
    /// Answers a request by its route: 404 for an unknown path, 405 with `Allow` for a known path and another method.
    package func answer(_ request: HTTPRequest) -> HTTPResponse {
        first { $0.path == request.path && $0.method == request.method }?.answer(request)
            ?? methodNotAllowed(path: request.path)
    }

    func methodNotAllowed(path: String) -> HTTPResponse {
        let allowed = filter { $0.path == path }.map(\.method.rawValue).joined(separator: ", ")
        guard !allowed.isEmpty else { return .text("no such page: \(path)\n", status: 404) }
        var response = HTTPResponse.text("\(path) accepts only \(allowed)\n", status: 405)
        response.headers.append((name: "Allow", value: allowed))
        return response
    }
}
