import Observability
import Testing

@Suite struct LoggerTests {}
