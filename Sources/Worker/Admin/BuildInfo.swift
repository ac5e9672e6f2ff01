internal import HTTP2
internal import Kafka
internal import Observability
internal import TLS

/// The versions of this build and of the libraries that it has loaded.
package enum BuildInfo {
    /// The version that `apns-worker --version`, the metrics and the status page show.
    package static let version = "0.1.0"

    /// The labels of the metric `build_info`: the versions of the worker, of the loaded libraries and of Swift's
    /// standard library.
    static var labels: PrometheusText.Labels {
        [
            "version": version, "librdkafka": KafkaLibrary.versionText, "nghttp2": ClientSession.libraryVersion,
            "openssl": Session.libraryVersion, "swift": "\(_SwiftStdlibVersion.current)",
        ]
    }
}
