"""Settings of a producer: their checks, and Kafka's names for them."""

from __future__ import annotations

from aioproducer.config.callables import check_progress as check_progress
from aioproducer.config.credentials import with_credentials as with_credentials
from aioproducer.config.endpoints import BootstrapServers as BootstrapServers
from aioproducer.config.endpoints import Endpoint as Endpoint
from aioproducer.config.endpoints import parse_endpoint as parse_endpoint
from aioproducer.config.file_secrets import FileReference as FileReference
from aioproducer.config.file_secrets import reading_files_again as reading_files_again
from aioproducer.config.names import checked_prefix as checked_prefix
from aioproducer.config.names import checked_transactional_id as checked_transactional_id
from aioproducer.config.names import checked_transactional_ids as checked_transactional_ids
from aioproducer.config.names import client_id_problem as client_id_problem
from aioproducer.config.names import topic_problem as topic_problem
from aioproducer.config.producer import SETTINGS as SETTINGS
from aioproducer.config.producer import ProducerConfig as ProducerConfig
from aioproducer.config.producer import config_of_call as config_of_call
from aioproducer.config.producer import require_config as require_config
from aioproducer.config.producer import require_connection_settings as require_connection_settings
from aioproducer.config.properties import properties_of as properties_of
from aioproducer.config.providers import KAFKAS as KAFKAS
from aioproducer.config.providers import ConfigProvider as ConfigProvider
from aioproducer.config.providers import DirectoryProvider as DirectoryProvider
from aioproducer.config.providers import EnvProvider as EnvProvider
from aioproducer.config.providers import FileProvider as FileProvider
from aioproducer.config.providers import UnresolvedError as UnresolvedError
from aioproducer.config.providers import replaced as replaced
from aioproducer.config.security.conflicts import iam_options as iam_options
from aioproducer.config.security.conflicts import jaas_options as jaas_options
from aioproducer.config.security.conflicts import ticket_cache as ticket_cache
from aioproducer.config.security.iam import region_of as region_of
from aioproducer.config.shown import shown_pair as shown_pair
from aioproducer.config.shown import shows_name as shows_name
from aioproducer.config.signature import Changes as Changes
from aioproducer.config.signature import ConnectionSettings as ConnectionSettings
from aioproducer.config.signature import Settings as Settings

__all__ = [
    "KAFKAS",
    "SETTINGS",
    "BootstrapServers",
    "Changes",
    "ConfigProvider",
    "ConnectionSettings",
    "DirectoryProvider",
    "Endpoint",
    "EnvProvider",
    "FileProvider",
    "FileReference",
    "ProducerConfig",
    "Settings",
    "UnresolvedError",
    "check_progress",
    "checked_prefix",
    "checked_transactional_id",
    "checked_transactional_ids",
    "client_id_problem",
    "config_of_call",
    "iam_options",
    "jaas_options",
    "parse_endpoint",
    "properties_of",
    "reading_files_again",
    "region_of",
    "replaced",
    "require_config",
    "require_connection_settings",
    "shown_pair",
    "shows_name",
    "ticket_cache",
    "topic_problem",
    "with_credentials",
]
