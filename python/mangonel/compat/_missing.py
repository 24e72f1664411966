"""PyMongo's public names without a counterpart. Written by `tools/compatibility.py`; do not edit."""

from __future__ import annotations

# A module, or two of the same names, in each line, and its names; an indented line continues the one above.
_TABLE = """
pymongo.(a)synchronous.aggregation
pymongo.(a)synchronous.auth HAVE_KERBEROS authenticate
pymongo.(a)synchronous.auth_aws
pymongo.(a)synchronous.auth_oidc
pymongo.(a)synchronous.bulk
pymongo.(a)synchronous.client_bulk
pymongo.(a)synchronous.command_runner run_bulk_write_command run_command run_cursor_command
pymongo.(a)synchronous.cursor_base
pymongo.asynchronous.encryption AsyncMongoCryptCallback
pymongo.asynchronous.helpers aiter anext
pymongo.(a)synchronous.monitor Monitor MonitorBase SrvMonitor
pymongo.(a)synchronous.settings TopologySettings
pymongo.(a)synchronous.srv_resolver maybe_decode
pymongo.(a)synchronous.topology Topology
pymongo.auth_oidc_shared CALLBACK_VERSION HUMAN_CALLBACK_TIMEOUT_SECONDS MACHINE_CALLBACK_TIMEOUT_SECONDS
    TIME_BETWEEN_CALLS_SECONDS TOKEN_BUFFER_MINUTES
pymongo.auth_shared GSSAPIProperties
pymongo.common BaseObject COMMAND_NOT_FOUND_CODES EVENTS_QUEUE_FREQUENCY INTERNAL_URI_OPTION_NAME_MAP
    KW_VALIDATORS MONGOS_EXHAUST_WIRE_VERSION NONSPEC_OPTIONS_VALIDATOR_MAP ORDERED_TYPES TIMEOUT_OPTIONS
    UNAUTHORIZED_CODES URI_OPTIONS_ALIAS_MAP URI_OPTIONS_DEPRECATION_MAP URI_OPTIONS_VALIDATOR_MAP VALIDATORS
    Version WRITE_CONCERN_OPTIONS check_for_min_version get_validated_options has_c
    redact_auth_mechanism_properties_for_repr validate_auth_mechanism validate_auth_mechanism_properties
    validate_auto_encryption_opts_or_none validate_read_preference_mode validate_read_preference_tags
    validate_server_monitoring_mode validate_timeoutms validate_unicode_decode_error_handler
pymongo.compression_support CompressionSettings SnappyContext ZlibContext ZstdContext decompress
    validate_compressors validate_zlib_compression_level
pymongo.daemon
pymongo.encryption_options check_min_pymongocrypt
pymongo.helpers_shared format_timeout_details
pymongo.lock Condition Lock
pymongo.max_staleness_selectors IDLE_WRITE_PERIOD SMALLEST_MAX_STALENESS select
pymongo.message MAX_INT32 MIN_INT32
pymongo.network_layer AsyncNetworkingInterface BLOCKING_IO_ERRORS NetworkingInterface NetworkingInterfaceBase
    PyMongoProtocol async_receive_data_socket async_receive_message async_sendall async_socket_sendall
    receive_data receive_message sendall wait_for_read
pymongo.ocsp_cache
pymongo.ocsp_support CertificateIssuerPublicKeyTypes
pymongo.periodic_executor AsyncPeriodicExecutor PeriodicExecutor
pymongo.pool_options DOCKER_ENV_PATH ENV_VAR_K8S ORCHESTRATOR_NAME_K8S RUNTIME_NAME_DOCKER
    get_container_env_info
pymongo.pool_shared PoolState SSLErrors
pymongo.pyopenssl_context BLOCKING_IO_ERRORS BLOCKING_IO_LOOKUP_ERROR BLOCKING_IO_READ_ERROR
    BLOCKING_IO_WRITE_ERROR EOF_ERRORS HAS_SNI IS_PYOPENSSL OP_NO_COMPRESSION OP_NO_RENEGOTIATION OP_NO_SSLv2
    OP_NO_SSLv3 PROTOCOL_SSLv23 SSLContext SSLError
pymongo.response PinnedResponse Response
pymongo.socket_checker SocketChecker
pymongo.ssl_context BLOCKING_IO_ERRORS BLOCKING_IO_READ_ERROR BLOCKING_IO_WRITE_ERROR HAS_SNI IS_PYOPENSSL
    OP_NO_COMPRESSION OP_NO_RENEGOTIATION OP_NO_SSLv2 OP_NO_SSLv3 PROTOCOL_SSLv23 SSLError
pymongo.ssl_support BLOCKING_IO_ERRORS BLOCKING_IO_LOOKUP_ERROR BLOCKING_IO_READ_ERROR BLOCKING_IO_WRITE_ERROR
    HAVE_PYSSL HAVE_SSL IPADDR_SAFE PYSSLError SSLError SSL_EOF_ERRORS get_ssl_context
pymongo.synchronous.encryption MongoCryptCallback
pymongo.synchronous.helpers iter next
pymongo.topology_description SRV_POLLING_TOPOLOGIES updated_topology_description
pymongo.topology_shared process_events_queue
pymongo.typings _DocumentTypeArg strip_optional
pymongo.uri_parser_shared SCHEME_LEN SRV_SCHEME_LEN
gridfs.asynchronous.grid_file AsyncGridOutIterator GRIDOUT_BASE_CLASS
gridfs.grid_file_shared EMPTY NEWLN
gridfs.synchronous.grid_file GRIDOUT_BASE_CLASS GridOutChunkIterator GridOutIterator
"""
MISSING: dict[str, tuple[str, ...]] = {
    module: tuple(names)
    for line, *names in map(str.split, _TABLE.replace("\n    ", " ").strip().splitlines())
    for module in (line.replace("(a)", "a"), line.replace("(a)", ""))
}
