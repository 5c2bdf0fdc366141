BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0007');
CREATE TABLE alert_keys (
	investigation_id VARCHAR NOT NULL, 
	fingerprint VARCHAR NOT NULL, 
	"key" VARCHAR NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_alert_keys PRIMARY KEY (investigation_id, fingerprint, "key"), 
	CONSTRAINT fk_alert_keys_investigation_id_investigations FOREIGN KEY(investigation_id) REFERENCES investigations (id) ON DELETE CASCADE
);
CREATE TABLE captures (
	id VARCHAR NOT NULL, 
	job VARCHAR NOT NULL, 
	asked_by TEXT NOT NULL, 
	asked_at DATETIME NOT NULL, 
	wanted TEXT NOT NULL, 
	hosts TEXT NOT NULL, 
	counts BOOLEAN NOT NULL, 
	status VARCHAR NOT NULL, 
	finished_at DATETIME, 
	result TEXT, 
	CONSTRAINT pk_captures PRIMARY KEY (id)
);
CREATE TABLE deliveries (
	source VARCHAR NOT NULL, 
	delivery_id VARCHAR NOT NULL, 
	investigation_id VARCHAR, 
	received_at DATETIME NOT NULL, 
	CONSTRAINT pk_deliveries PRIMARY KEY (source, delivery_id)
);
INSERT INTO "deliveries" VALUES('pagerduty','c7000680f0e80cb2f3e48ba30def2a2bca03195f486796b61c40da7b09eb9dfa','20261121-224741-379c52','2026-11-21 22:47:41.501918');
CREATE TABLE further_investigations (
	investigation_id VARCHAR NOT NULL, 
	"key" VARCHAR NOT NULL, 
	parent_id VARCHAR NOT NULL, 
	window_start DATETIME, 
	window_end DATETIME, 
	services JSON NOT NULL, 
	who VARCHAR NOT NULL, 
	CONSTRAINT pk_further_investigations PRIMARY KEY (investigation_id), 
	CONSTRAINT fk_further_investigations_investigation_id_investigations FOREIGN KEY(investigation_id) REFERENCES investigations (id) ON DELETE CASCADE, 
	CONSTRAINT uq_further_investigations_key UNIQUE ("key")
);
CREATE TABLE grouped_alerts (
	id INTEGER NOT NULL, 
	investigation_id VARCHAR NOT NULL, 
	fingerprint VARCHAR NOT NULL, 
	open_fingerprint VARCHAR, 
	alert JSON NOT NULL, 
	why TEXT NOT NULL, 
	at DATETIME NOT NULL, 
	repeats INTEGER NOT NULL, 
	resolved_at DATETIME, 
	CONSTRAINT pk_grouped_alerts PRIMARY KEY (id), 
	CONSTRAINT fk_grouped_alerts_investigation_id_investigations FOREIGN KEY(investigation_id) REFERENCES investigations (id) ON DELETE CASCADE, 
	CONSTRAINT uq_grouped_alerts_open_fingerprint UNIQUE (open_fingerprint)
);
CREATE TABLE held_alerts (
	"key" VARCHAR NOT NULL, 
	kind VARCHAR NOT NULL, 
	fingerprint VARCHAR NOT NULL, 
	channel VARCHAR NOT NULL, 
	alert JSON NOT NULL, 
	why TEXT NOT NULL, 
	count INTEGER NOT NULL, 
	first_at DATETIME NOT NULL, 
	last_at DATETIME NOT NULL, 
	CONSTRAINT pk_held_alerts PRIMARY KEY ("key")
);
CREATE TABLE investigations (
	id VARCHAR NOT NULL, 
	fingerprint VARCHAR NOT NULL, 
	open_fingerprint VARCHAR, 
	alert JSON NOT NULL, 
	question TEXT, 
	status VARCHAR NOT NULL, 
	repeats INTEGER NOT NULL, 
	slack_channel VARCHAR, 
	slack_thread VARCHAR, 
	pagerduty_incident VARCHAR, 
	accepted_at DATETIME NOT NULL, 
	dispatched_at DATETIME, 
	started_at DATETIME, 
	finished_at DATETIME, 
	resolved_at DATETIME, 
	verdict VARCHAR, 
	confidence FLOAT, 
	headline TEXT, automatic BOOLEAN DEFAULT 1 NOT NULL, channel VARCHAR DEFAULT '' NOT NULL, quiet_until DATETIME, digested_at DATETIME, members INTEGER DEFAULT 0 NOT NULL, surplus INTEGER DEFAULT 0 NOT NULL, changes INTEGER DEFAULT 0 NOT NULL, told INTEGER DEFAULT 0 NOT NULL, told_at DATETIME, wants_run BOOLEAN DEFAULT 0 NOT NULL, runs INTEGER DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_investigations PRIMARY KEY (id), 
	CONSTRAINT uq_investigations_open_fingerprint UNIQUE (open_fingerprint)
);
INSERT INTO "investigations" VALUES('20261121-224741-379c52','079b4c1d89e9616b','079b4c1d89e9616b','{"source": "pagerduty", "title": "checkout p99 latency above 800 ms", "started_at": "2026-11-21T22:47:41.032175Z", "id": "P0001", "status": "firing", "service": "checkout", "signal": null, "system": null, "severity": "high", "summary": null, "threshold": null, "observed": null, "labels": {"incident_key": "key-P0001", "urgency": "high", "pagerduty_service": "PSERVICE"}, "links": [{"title": "PagerDuty incident", "url": "https://acme.pagerduty.com/incidents/P0001"}]}',NULL,'running',0,NULL,NULL,'P0001','2026-11-21 22:47:41.501918','2026-11-21 22:48:11.406635','2026-11-21 22:48:12.394831',NULL,NULL,NULL,NULL,NULL,1,'C0INCIDENTS',NULL,NULL,0,0,0,0,NULL,0,0);
CREATE TABLE labels (
	id INTEGER NOT NULL, 
	investigation_id VARCHAR NOT NULL, 
	is_right BOOLEAN NOT NULL, 
	cause TEXT NOT NULL, 
	who TEXT NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_labels PRIMARY KEY (id), 
	CONSTRAINT fk_labels_investigation_id_investigations FOREIGN KEY(investigation_id) REFERENCES investigations (id) ON DELETE CASCADE
);
CREATE TABLE mutes (
	id INTEGER NOT NULL, 
	fingerprint VARCHAR NOT NULL, 
	title TEXT NOT NULL, 
	at DATETIME NOT NULL, 
	until DATETIME NOT NULL, 
	ended_at DATETIME, 
	until_resolved BOOLEAN DEFAULT 0 NOT NULL, 
	who TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	held INTEGER NOT NULL, 
	held_at DATETIME, 
	CONSTRAINT pk_mutes PRIMARY KEY (id)
);
CREATE TABLE posts (
	"key" VARCHAR NOT NULL, 
	investigation_id VARCHAR NOT NULL, 
	owner VARCHAR NOT NULL, 
	attempted_at DATETIME NOT NULL, 
	posted_at DATETIME, 
	ref TEXT, 
	CONSTRAINT pk_posts PRIMARY KEY ("key"), 
	CONSTRAINT fk_posts_investigation_id_investigations FOREIGN KEY(investigation_id) REFERENCES investigations (id) ON DELETE CASCADE
);
INSERT INTO "posts" VALUES('20261121-224741-379c52:slack','20261121-224741-379c52','worker-4549-ab81bf9f/5df43928','2026-11-21 22:48:12.858510','2026-11-21 22:48:13.509991','C0INCIDENTS/1795301293.000001');
CREATE TABLE progress (
	id INTEGER NOT NULL, 
	investigation_id VARCHAR NOT NULL, 
	"key" VARCHAR NOT NULL, 
	at DATETIME NOT NULL, 
	stage VARCHAR NOT NULL, 
	text TEXT NOT NULL, 
	CONSTRAINT pk_progress PRIMARY KEY (id), 
	CONSTRAINT fk_progress_investigation_id_investigations FOREIGN KEY(investigation_id) REFERENCES investigations (id) ON DELETE CASCADE, 
	CONSTRAINT uq_progress_key UNIQUE ("key")
);
INSERT INTO "progress" VALUES(1,'20261121-224741-379c52','20261121-224741-379c52:scope','2026-11-21 22:48:12.695407','scope','2026-11-20 02:55 to 03:06 UTC; asking recorded, pagerduty, slack');
INSERT INTO "progress" VALUES(2,'20261121-224741-379c52','20261121-224741-379c52:collect slack','2026-11-21 22:48:13.437628','collect slack','slack: 0 items');
INSERT INTO "progress" VALUES(3,'20261121-224741-379c52','20261121-224741-379c52:collect pagerduty','2026-11-21 22:48:13.761364','collect pagerduty','pagerduty: 6 items');
INSERT INTO "progress" VALUES(4,'20261121-224741-379c52','20261121-224741-379c52:collect recorded','2026-11-21 22:48:14.228864','collect recorded','recorded: 2 items');
INSERT INTO "progress" VALUES(5,'20261121-224741-379c52','20261121-224741-379c52:memory','2026-11-21 22:48:14.989092','memory','0 earlier investigations recalled');
CREATE TABLE question_posts (
	"key" VARCHAR NOT NULL, 
	question_id VARCHAR NOT NULL, 
	owner VARCHAR NOT NULL, 
	attempted_at DATETIME NOT NULL, 
	ref TEXT, 
	CONSTRAINT pk_question_posts PRIMARY KEY ("key"), 
	CONSTRAINT fk_question_posts_question_id_questions FOREIGN KEY(question_id) REFERENCES questions (id) ON DELETE CASCADE
);
CREATE TABLE questions (
	id VARCHAR NOT NULL, 
	event_id VARCHAR NOT NULL, 
	kind VARCHAR NOT NULL, 
	surface VARCHAR NOT NULL, 
	text TEXT NOT NULL, 
	who VARCHAR NOT NULL, 
	channel VARCHAR NOT NULL, 
	thread VARCHAR NOT NULL, 
	ts VARCHAR NOT NULL, 
	about_channel VARCHAR, 
	investigation_id VARCHAR, 
	status VARCHAR NOT NULL, 
	asked_at DATETIME NOT NULL, 
	dispatched_at DATETIME, 
	answered_at DATETIME, 
	answer JSON, 
	CONSTRAINT pk_questions PRIMARY KEY (id), 
	CONSTRAINT fk_questions_investigation_id_investigations FOREIGN KEY(investigation_id) REFERENCES investigations (id) ON DELETE CASCADE
);
CREATE TABLE quiet_threads (
	channel VARCHAR NOT NULL, 
	thread VARCHAR NOT NULL, 
	who VARCHAR NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_quiet_threads PRIMARY KEY (channel, thread)
);
CREATE TABLE remembered (
	id INTEGER NOT NULL, 
	investigation_id VARCHAR NOT NULL, 
	at DATETIME NOT NULL, 
	fingerprint VARCHAR NOT NULL, 
	alike VARCHAR NOT NULL, 
	content JSON NOT NULL, 
	words TEXT NOT NULL, 
	CONSTRAINT pk_remembered PRIMARY KEY (id), 
	CONSTRAINT fk_remembered_investigation_id_investigations FOREIGN KEY(investigation_id) REFERENCES investigations (id) ON DELETE CASCADE, 
	CONSTRAINT uq_remembered_investigation_id UNIQUE (investigation_id)
);
PRAGMA writable_schema=ON;
INSERT INTO sqlite_master(type,name,tbl_name,rootpage,sql)VALUES('table','remembered_search','remembered_search',0,'CREATE VIRTUAL TABLE remembered_search USING fts5(words, content=''remembered'', content_rowid=''id'', tokenize=''ascii'')');
CREATE TABLE 'remembered_search_config'(k PRIMARY KEY, v) WITHOUT ROWID;
INSERT INTO "remembered_search_config" VALUES('version',4);
CREATE TABLE 'remembered_search_data'(id INTEGER PRIMARY KEY, block BLOB);
INSERT INTO "remembered_search_data" VALUES(1,X'');
INSERT INTO "remembered_search_data" VALUES(10,X'00000000000000');
CREATE TABLE 'remembered_search_docsize'(id INTEGER PRIMARY KEY, sz BLOB);
CREATE TABLE 'remembered_search_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;
CREATE TABLE remembered_services (
	investigation_id VARCHAR NOT NULL, 
	service VARCHAR NOT NULL, 
	CONSTRAINT pk_remembered_services PRIMARY KEY (investigation_id, service), 
	CONSTRAINT fk_remembered_services_investigation_id_remembered FOREIGN KEY(investigation_id) REFERENCES remembered (investigation_id) ON DELETE CASCADE
);
CREATE TABLE sessions (
	id VARCHAR NOT NULL, 
	visitor_id INTEGER NOT NULL, 
	proof VARCHAR NOT NULL, 
	provider_session VARCHAR, 
	email TEXT NOT NULL, 
	belongs_to JSON NOT NULL, 
	address VARCHAR NOT NULL, 
	created_at DATETIME NOT NULL, 
	seen_at DATETIME NOT NULL, 
	expires_at DATETIME NOT NULL, 
	CONSTRAINT pk_sessions PRIMARY KEY (id), 
	CONSTRAINT fk_sessions_visitor_id_visitors FOREIGN KEY(visitor_id) REFERENCES visitors (id) ON DELETE CASCADE
);
CREATE TABLE visitors (
	id INTEGER NOT NULL, 
	issuer VARCHAR NOT NULL, 
	subject VARCHAR NOT NULL, 
	who TEXT NOT NULL, 
	name TEXT NOT NULL, 
	first_at DATETIME NOT NULL, 
	last_at DATETIME NOT NULL, 
	CONSTRAINT pk_visitors PRIMARY KEY (id), 
	CONSTRAINT uq_visitors_issuer_subject UNIQUE (issuer, subject)
);
CREATE TABLE visits (
	id INTEGER NOT NULL, 
	at DATETIME NOT NULL, 
	who TEXT NOT NULL, 
	name TEXT NOT NULL, 
	role VARCHAR NOT NULL, 
	action VARCHAR NOT NULL, 
	investigation_id VARCHAR, 
	address VARCHAR NOT NULL, 
	status INTEGER NOT NULL, 
	note TEXT NOT NULL, 
	CONSTRAINT pk_visits PRIMARY KEY (id)
);
CREATE INDEX ix_deliveries_received_at ON deliveries (received_at);
CREATE INDEX ix_investigations_accepted_at ON investigations (accepted_at);
CREATE INDEX ix_investigations_fingerprint ON investigations (fingerprint);
CREATE INDEX ix_investigations_status ON investigations (status);
CREATE INDEX ix_posts_investigation_id ON posts (investigation_id);
CREATE INDEX ix_progress_investigation_id_id ON progress (investigation_id, id);
CREATE INDEX ix_captures_job_asked_at ON captures (job, asked_at);
CREATE INDEX ix_remembered_at ON remembered (at);
CREATE INDEX ix_remembered_fingerprint ON remembered (fingerprint);
CREATE INDEX ix_remembered_alike ON remembered (alike);
CREATE TRIGGER remembered_added AFTER INSERT ON remembered BEGIN INSERT INTO remembered_search(rowid, words) VALUES (new.id, new.words); END;
CREATE TRIGGER remembered_gone AFTER DELETE ON remembered BEGIN INSERT INTO remembered_search(remembered_search, rowid, words) VALUES ('delete', old.id, old.words); END;
CREATE TRIGGER remembered_changed AFTER UPDATE ON remembered BEGIN INSERT INTO remembered_search(remembered_search, rowid, words) VALUES ('delete', old.id, old.words); INSERT INTO remembered_search(rowid, words) VALUES (new.id, new.words); END;
CREATE INDEX ix_remembered_services_service ON remembered_services (service);
CREATE INDEX ix_labels_investigation_id ON labels (investigation_id);
CREATE INDEX ix_investigations_channel_accepted_at ON investigations (channel, accepted_at);
CREATE INDEX ix_grouped_alerts_fingerprint ON grouped_alerts (fingerprint);
CREATE UNIQUE INDEX uq_grouped_alerts_once ON grouped_alerts (investigation_id, fingerprint);
CREATE INDEX ix_alert_keys_fingerprint ON alert_keys (fingerprint);
CREATE INDEX ix_alert_keys_key_at ON alert_keys ("key", at);
CREATE INDEX ix_mutes_fingerprint ON mutes (fingerprint);
CREATE INDEX ix_mutes_until ON mutes (until);
CREATE INDEX ix_held_alerts_last_at ON held_alerts (last_at);
CREATE INDEX ix_sessions_expires_at ON sessions (expires_at);
CREATE INDEX ix_sessions_provider_session ON sessions (provider_session);
CREATE INDEX ix_sessions_visitor_id ON sessions (visitor_id);
CREATE INDEX ix_visits_at ON visits (at);
CREATE INDEX ix_visits_investigation_id ON visits (investigation_id);
CREATE INDEX ix_visits_who ON visits (who);
CREATE INDEX ix_questions_thread ON questions (channel, thread, asked_at);
CREATE INDEX ix_questions_status ON questions (status, asked_at);
CREATE INDEX ix_question_posts_question_id ON question_posts (question_id);
CREATE INDEX ix_further_investigations_parent_id ON further_investigations (parent_id);
CREATE INDEX ix_investigations_slack_thread ON investigations (slack_channel, slack_thread);
CREATE INDEX ix_posts_ref ON posts (ref);
CREATE INDEX ix_investigations_listed ON investigations (accepted_at, id, status, verdict, confidence, fingerprint, json_extract(alert, '$.service'), json_extract(alert, '$.source'));
CREATE INDEX ix_investigations_service ON investigations (json_extract(alert, '$.service'), accepted_at, id);
CREATE INDEX ix_investigations_source ON investigations (json_extract(alert, '$.source'), accepted_at, id);
PRAGMA writable_schema=OFF;
COMMIT;
